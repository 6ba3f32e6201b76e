PRAGMA application_id = 1279346511;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE attribute (
	document_key INTEGER NOT NULL,
	position INTEGER NOT NULL,
	field TEXT NOT NULL,
	kind TEXT NOT NULL,
	in_list BOOLEAN NOT NULL,
	text_value TEXT,
	number_value NUMERIC,
	PRIMARY KEY (document_key, position),
	FOREIGN KEY(document_key) REFERENCES document ("key") ON DELETE CASCADE
);
INSERT INTO "attribute" VALUES(1,0,'year','number',0,NULL,2021);
INSERT INTO "attribute" VALUES(2,0,'year','number',0,NULL,2023);
CREATE TABLE chunk (
	"key" INTEGER NOT NULL,
	id TEXT NOT NULL,
	document_key INTEGER NOT NULL,
	set_key INTEGER NOT NULL,
	level TEXT NOT NULL,
	parent_id TEXT,
	ordinal INTEGER NOT NULL,
	start INTEGER NOT NULL,
	"end" INTEGER NOT NULL,
	token_count INTEGER NOT NULL,
	page_first INTEGER,
	page_last INTEGER,
	heading_path JSON NOT NULL,
	element TEXT NOT NULL,
	row_first INTEGER,
	row_last INTEGER,
	item_first INTEGER,
	item_last INTEGER,
	PRIMARY KEY ("key"),
	FOREIGN KEY(document_key) REFERENCES document ("key") ON DELETE CASCADE,
	FOREIGN KEY(set_key) REFERENCES chunk_set ("key") ON DELETE CASCADE
);
INSERT INTO "chunk" VALUES(1,'d9e02b904c5a35b030cc00bb4ef36935',1,1,'flat',NULL,0,0,39,9,NULL,NULL,'["Dogs"]','paragraph',NULL,NULL,NULL,NULL);
INSERT INTO "chunk" VALUES(2,'76303b06f785a51f04ae464061b19264',1,1,'flat',NULL,1,39,87,13,NULL,NULL,'["Dogs", "Training"]','paragraph',NULL,NULL,NULL,NULL);
INSERT INTO "chunk" VALUES(3,'5eadd3e8c814ba59a4cb20f87d9d35b9',2,2,'flat',NULL,0,0,44,11,NULL,NULL,'[]','paragraph',NULL,NULL,NULL,NULL);
CREATE TABLE chunk_set (
	"key" INTEGER NOT NULL,
	document_key INTEGER NOT NULL,
	content_hash TEXT NOT NULL,
	chunker_id TEXT NOT NULL,
	model_id TEXT NOT NULL,
	created_at TEXT NOT NULL,
	expires_at TEXT,
	PRIMARY KEY ("key"),
	UNIQUE (document_key, content_hash, chunker_id, model_id),
	FOREIGN KEY(document_key) REFERENCES document ("key") ON DELETE CASCADE
);
INSERT INTO "chunk_set" VALUES(1,1,'a385bcf372844b5f62020b244f6a0597','heading:24/4','hash','2026-11-16T02:03:06.393819Z',NULL);
INSERT INTO "chunk_set" VALUES(2,2,'d13d84d59a1d59fe13fa8e899d97cb2e','heading:24/4','hash','2026-11-16T02:03:06.396324Z',NULL);
CREATE TABLE counter (
	name TEXT NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "counter" VALUES('document',2);
INSERT INTO "counter" VALUES('chunk_set',2);
INSERT INTO "counter" VALUES('change',3);
INSERT INTO "counter" VALUES('state',1);
CREATE TABLE document (
	"key" INTEGER NOT NULL,
	collection TEXT NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	source TEXT NOT NULL,
	source_ref TEXT,
	title TEXT,
	summary TEXT,
	language TEXT,
	metadata JSON NOT NULL,
	created_at TEXT,
	updated_at TEXT,
	content_hash TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	structure JSON NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY ("key"),
	UNIQUE (collection, id)
);
INSERT INTO "document" VALUES(1,'default','dogs','text','',NULL,'Dogs',NULL,'en','{"year": 2021}',NULL,NULL,'a385bcf372844b5f62020b244f6a0597','38e85ffb4dfc4473b530496617c08af8','{"pages": [], "headings": [{"start": 0, "end": 87, "level": 1, "title": "Dogs"}, {"start": 39, "end": 87, "level": 2, "title": "Training"}], "blocks": []}','# Dogs

The water dog finds truffles.

## Training

It takes a year and much patience.
');
INSERT INTO "document" VALUES(2,'default','oaks','text','',NULL,'Oaks',NULL,'en','{"year": 2023}',NULL,NULL,'d13d84d59a1d59fe13fa8e899d97cb2e','dec4376ff123a0d88dc6a0ff24bc8a85','{"pages": [], "headings": [], "blocks": []}','Truffles grow on the roots of oak and hazel.');
CREATE TABLE embedding (
	chunk_key INTEGER NOT NULL,
	model_id TEXT NOT NULL,
	vector BLOB NOT NULL,
	PRIMARY KEY (chunk_key, model_id),
	FOREIGN KEY(chunk_key) REFERENCES chunk ("key") ON DELETE CASCADE
);
INSERT INTO "embedding" VALUES(1,'hash',X'70B18E39EB05D13E47598B3E47598BBE47590BBF47590B3F47598BBE47590B3E');
INSERT INTO "embedding" VALUES(2,'hash',X'06F3EC3DF3796C3E765BB13EF3796C3EF3796C3E00000000F3796CBEB4EA4E3F');
INSERT INTO "embedding" VALUES(3,'hash',X'83D411BFEC6BE93EF110AFBEEC6BE93DEC6BE9BEF110AFBEEC6BE9BD00000000');
CREATE TABLE removal (
	sequence INTEGER NOT NULL,
	chunk_key INTEGER NOT NULL,
	PRIMARY KEY (sequence)
);
CREATE TABLE setting (
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "setting" VALUES('base_id','f92dfd4e98b149e6bb149f1af4f5da2a');
INSERT INTO "setting" VALUES('text_index','tantivy');
INSERT INTO "setting" VALUES('model_id','hash');
INSERT INTO "setting" VALUES('dimension','8');
CREATE INDEX document_by_language ON document (language);
CREATE INDEX attribute_by_text ON attribute (field, text_value, document_key);
CREATE INDEX attribute_by_number ON attribute (field, number_value, document_key);
CREATE INDEX chunk_by_document ON chunk (document_key);
COMMIT;
