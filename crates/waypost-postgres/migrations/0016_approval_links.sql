-- Do messages about approvals have a link for each approver?
ALTER TABLE webhook_endpoints ADD COLUMN with_links boolean NOT NULL DEFAULT false;
